"""Pictures of what results and models already hold; nothing is computed here."""
