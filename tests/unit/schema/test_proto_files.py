"""Protobuf files that import each other, as text and as descriptors, without protoc."""

from __future__ import annotations

import base64

import pytest
from google.protobuf import descriptor_pb2, message_factory

from tidelog.schema.proto.files import link, read_file, well_known
from tidelog.schema.proto.tokens import ProtoError

CUSTOMER = """
syntax = "proto2";
package shop;
message Customer {
  required string name = 1;
  optional int32 age = 2 [default = 18];
  enum Kind { NEW = 1; OLD = 2; }
  optional Kind kind = 3 [default = OLD];
}
"""
ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "customer.proto";
message Order {
  message Line { string sku = 1; }
  Customer customer = 1;
  map<string, Line> lines = 2;
  oneof paid { string card = 3; bool cash = 4; }
  google.protobuf.Timestamp at = 5;
}
"""


def packed(text: str) -> str:
    return base64.b64encode(read_file(text, "x").SerializeToString()).decode()


@pytest.mark.parametrize("order", [ORDER, packed(ORDER)])
@pytest.mark.parametrize("customer", [CUSTOMER, packed(CUSTOMER)])
def test_text_and_descriptors_import_each_other(order: str, customer: str) -> None:
    others = {"customer.proto": read_file(customer, "customer.proto")}
    pool = link([read_file(order, "order.proto")], others)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    made = message(card="1", customer={"name": "Ada"}, lines={"a": {"sku": "pear"}}, at={"seconds": 7})
    back = message.FromString(made.SerializeToString())
    assert back == made
    assert (back.customer.age, back.customer.kind, back.WhichOneof("paid")) == (18, 2, "card")


def test_files_that_cannot_be_linked_say_why() -> None:
    for text, others, why in [
        ('import "b.proto";', {}, "it imports 'b.proto', but no reference has this name"),
        (
            'import "b.proto";',
            {"b.proto": 'import "a.proto";'},
            "'a.proto' imports itself, by way of b.proto",
        ),
        ('import "a.proto";', {}, "'a.proto' imports itself, by way of nothing"),
        ('import "b.proto";', {"b.proto": "message M { optional Gone x = 1; }"}, r"Gone.*\(in b.proto\)"),
    ]:
        files = {name: read_file(other, name) for name, other in others.items()}
        with pytest.raises(ProtoError, match=why):
            link([read_file(text, "a.proto")], files)


def test_an_error_in_the_text_has_its_line() -> None:
    with pytest.raises(ProtoError, match="line 2: ") as caught:
        read_file('syntax = "proto3";\nmessage {', "a.proto")
    assert caught.value.line == 2


def test_a_file_that_two_files_import_is_there_once() -> None:
    files = {
        "b.proto": read_file('import public "c.proto";', "b.proto"),
        "c.proto": read_file("message C {}", "c.proto"),
    }
    pool = link([read_file('import "b.proto"; import "c.proto";', "a.proto")], files)
    assert pool.FindMessageTypeByName("C").file.name == "c.proto"


def test_well_known_files_need_no_registration() -> None:
    for path in ("google/protobuf/any.proto", "confluent/meta.proto", "google/type/money.proto"):
        file = well_known(path)
        assert isinstance(file, descriptor_pb2.FileDescriptorProto) and file.name == path
    assert well_known("google/protobuf/nothing.proto") is None and well_known("os.proto") is None
