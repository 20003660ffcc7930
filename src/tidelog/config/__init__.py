"""Settings: Kafka's names, types, defaults and limits as tables, and the parsed forms that code reads.

`TopicConfig`, `GroupConfig` and `BrokerConfig` are immutable; `tidelog.config.describe` shows where each value comes from.
"""

from tidelog.config.broker import BROKER_SETTINGS, BrokerConfig
from tidelog.config.group import GroupConfig
from tidelog.config.listener import Listener
from tidelog.config.properties import parse_properties
from tidelog.config.setting import Setting, SettingKind
from tidelog.config.topic import TOPIC_SETTINGS, TopicConfig
from tidelog.config.topic_defaults import TOPIC_SYNONYMS

__all__ = [
    "BROKER_SETTINGS",
    "TOPIC_SETTINGS",
    "TOPIC_SYNONYMS",
    "BrokerConfig",
    "GroupConfig",
    "Listener",
    "Setting",
    "SettingKind",
    "TopicConfig",
    "parse_properties",
]
