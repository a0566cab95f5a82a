"""How the service is and was."""
