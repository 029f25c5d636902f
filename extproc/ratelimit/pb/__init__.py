"""Generated protobuf messages of the rate limit service (see proto/README.md); nothing here is written by hand."""
