"""Generated protobuf messages of the ext_proc service (see proto/README.md); nothing here is written by hand."""
