"""Scripted providers: strict stand-ins of real endpoints that refuse what those refuse and answer what a test says."""
