"""Files of Bayes nets: one module for each format of other programs."""
