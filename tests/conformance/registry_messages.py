"""Protobuf messages in two files, compiled by protoc, with an option that another file defines."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry.confluent import meta_pb2
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

FILES = {
    "tests/customer.proto": """
syntax = "proto3";
package tests.shop;
message Customer { string name = 1; }
""",
    "tests/order.proto": """
syntax = "proto3";
package tests.shop;
import "confluent/meta.proto";
import "google/protobuf/timestamp.proto";
import "tests/customer.proto";
message Order {
  int64 id = 1;
  Customer customer = 2 [(confluent.field_meta) = { doc: "who bought" }];
  optional string note = 3;
  map<string, int32> lines = 4;
  oneof paid { string card = 5; bool cash = 6; }
  google.protobuf.Timestamp at = 7;
}
""",
    "confluent/meta.proto": """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
}
GOOGLE = str(Path(protoc.__file__).parent / "_proto")


def compiled(files: dict[str, str], *roots: str) -> list[descriptor_pb2.FileDescriptorProto]:
    """What protoc makes of them, those that are imported first."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        out = Path(folder, "out")
        said = protoc.main(
            [
                "protoc",
                f"-I{folder}",
                f"-I{GOOGLE}",
                f"--descriptor_set_out={out}",
                "--include_imports",
                *roots,
            ]
        )
        assert said == 0
        return list(descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file)


def _messages() -> dict[str, type[Any]]:
    assert meta_pb2.DESCRIPTOR.name == "confluent/meta.proto"
    pool = descriptor_pool.Default()
    for file in compiled(FILES, "tests/order.proto"):
        try:
            pool.FindFileByName(file.name)
        except KeyError:
            pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"tests.shop.{name}"))
        for name in ("Order", "Customer")
    }


_MADE = _messages()
Order: Any = _MADE["Order"]
Customer: Any = _MADE["Customer"]
