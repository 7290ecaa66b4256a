"""The model language: expressions, formulas and model files, parsed to checked trees with the place of each error."""
