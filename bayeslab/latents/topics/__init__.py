"""Topics of the words of documents: latent Dirichlet allocation and related models."""
