"""Variables of Bayes nets: tables and conditional Gaussians, their answers, and how they are learned."""
