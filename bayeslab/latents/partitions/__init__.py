"""Partitions of rows into clusters: Dirichlet and Pitman-Yor processes, mixtures of finite mixtures."""
