"""What models sum out: latent states, their prior, their posterior at given parameters, and what is learned of them."""
