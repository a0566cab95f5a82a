"""Personal API keys: registration by e-mail, the keys themselves and the outbox of mails."""
