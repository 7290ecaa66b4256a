"""Labels of rows: which of K components each one comes from, by weights or by a gate on inputs."""
