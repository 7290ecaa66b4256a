"""Labels of rows: the component of each row, by common weights or by a gate on inputs."""
