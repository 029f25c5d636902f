"""Generated protobuf messages of the access log service (see proto/README.md); nothing here is written by hand."""
