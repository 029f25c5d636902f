"""Clients and providers of one API."""
