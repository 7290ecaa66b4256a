"""What users write: expressions, formulas, model files; text to checked trees, with the place of each error."""
