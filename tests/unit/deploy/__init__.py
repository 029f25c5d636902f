"""The files with which the gateway is deployed, read and compared with each other and with the program."""
