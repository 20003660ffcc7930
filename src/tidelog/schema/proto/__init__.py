"""The one reader of .proto files: the registry, the pipeline and the gateways use it.  Needs protobuf."""
