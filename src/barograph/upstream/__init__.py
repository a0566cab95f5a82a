"""One adapter per outside service: the exchange, publishers of daily figures, identity, payments, mail."""
