"""Features that rows have or not, and factors: binary factor models, the Indian buffet, factor analysis."""
