"""Protobuf messages made here, so that the tests need no compiler for them."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def messages() -> dict[str, type[Any]]:
    """`Order` (the first of its file), `Line` (nested in the second), which uses `Price` from another file."""
    pool = descriptor_pool.DescriptorPool()
    field = descriptor_pb2.FieldDescriptorProto
    price = descriptor_pb2.FileDescriptorProto(name="price.proto", package="shop", syntax="proto3")
    message = price.message_type.add(name="Price")
    message.field.add(name="cents", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    orders = descriptor_pb2.FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
    orders.dependency.append("price.proto")
    order = orders.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    order.field.add(name="name", number=2, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    basket = orders.message_type.add(name="Basket")
    basket.nested_type.add(name="Empty")
    line = basket.nested_type.add(name="Line")
    line.field.add(
        name="price", number=1, type=field.TYPE_MESSAGE, type_name=".shop.Price", label=field.LABEL_OPTIONAL
    )
    for file in (price, orders):
        pool.Add(file)
    names = {"Order": "shop.Order", "Line": "shop.Basket.Line", "Price": "shop.Price"}
    return {
        short: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        for short, name in names.items()
    }
