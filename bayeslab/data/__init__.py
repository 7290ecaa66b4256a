"""Tables and arrays as named columns: levels, missing cells, dimensions, and formulas evaluated on them."""
