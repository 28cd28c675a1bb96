"""Tidepool behind interfaces that other packages publish. Each module needs its package and nothing else imports it:
client/python/README.md has the table."""
