"""Topics of the words of documents: latent Dirichlet allocation and its kin."""
