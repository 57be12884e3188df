"""The other programs of a Kafka cluster, by librdkafka: foreign_client.py BROKERS COMMAND JSON."""

import json
import sys

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

BROKERS, COMMAND, ASKED = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])


def encoded(text):
    return None if text is None else text.encode()


def decoded(content):
    return None if content is None else content.decode()


def send(producer):
    errors = []
    for message in ASKED["messages"]:
        producer.produce(
            ASKED["topic"],
            key=encoded(message.get("key")),
            value=encoded(message.get("value")) + b" " * message["padding"] if "padding" in message else encoded(message.get("value")),
            headers=[(name, encoded(value)) for name, value in message.get("headers", [])],
            on_delivery=lambda error, _: errors.append(str(error)) if error else None,
        )
        producer.poll(0)
    left = producer.flush(60)
    if left or errors:
        raise SystemExit(f"{left} messages were not sent, errors: {errors[:3]}")


def produce():
    send(Producer({"bootstrap.servers": BROKERS, "enable.idempotence": True, **ASKED.get("config", {})}))


def transaction():
    """Open until a line comes on the standard input, then aborted."""
    producer = Producer({"bootstrap.servers": BROKERS, "transactional.id": ASKED["id"], "transaction.timeout.ms": 300000})
    producer.init_transactions(60)
    producer.begin_transaction()
    send(producer)
    print("open", flush=True)
    sys.stdin.readline()
    producer.abort_transaction(60)


def consume():
    """What is committed in all partitions, one JSON a line."""
    consumer = Consumer(
        {
            "bootstrap.servers": BROKERS,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    partitions = consumer.list_topics(ASKED["topic"], 30).topics[ASKED["topic"]].partitions
    consumer.assign([TopicPartition(ASKED["topic"], partition, 0) for partition in partitions])
    ended = set()
    while len(ended) < len(partitions):
        message = consumer.poll(30)
        if message is None:
            raise SystemExit("nothing came in 30 s")
        if message.error():
            ended.add(message.partition())
            continue
        headers = [[name, decoded(value)] for name, value in message.headers() or [] if not name.startswith("concord-")]
        print(json.dumps({"key": decoded(message.key()), "value": decoded(message.value()), "headers": headers}))
    consumer.close()


def follow():
    """As many committed values as are wanted, one JSON a line; brokers may be away for a while."""
    consumer = Consumer(
        {
            "bootstrap.servers": BROKERS,
            "group.id": "follower",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            # A line for each refused connection is no news here.
            "log_level": 2,
        }
    )
    consumer.assign([TopicPartition(ASKED["topic"], partition, 0) for partition in range(ASKED["partitions"])])
    values = set()
    while len(values) < ASKED["count"]:
        message = consumer.poll(1)
        if message is not None and not message.error():
            values.add(message.value())
            print(json.dumps(decoded(message.value())), flush=True)
    consumer.close()


def admin():
    client = AdminClient({"bootstrap.servers": BROKERS})
    if "delete" in ASKED:
        futures = client.delete_topics([ASKED["delete"]], operation_timeout=30)
    elif "grow" in ASKED:
        futures = client.create_partitions([NewPartitions(ASKED["grow"], ASKED["partitions"])])
    elif "alter" in ASKED:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in ASKED["settings"].items()
        ]
        futures = client.incremental_alter_configs([ConfigResource("topic", ASKED["alter"], incremental_configs=entries)])
    else:
        config = {"retention.ms": "-1"}
        futures = client.create_topics([NewTopic(ASKED["create"], ASKED["partitions"], 1, config=config)])
    for future in futures.values():
        future.result(60)


def user():
    """A user who logs in by SCRAM and may do everything with what begins with the prefix, of these kinds."""
    client = AdminClient({"bootstrap.servers": BROKERS})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    for future in client.alter_user_scram_credentials([UserScramCredentialUpsertion(ASKED["name"], info, ASKED["password"].encode())]).values():
        future.result(60)
    principal, pattern = f"User:{ASKED['name']}", ResourcePatternType.PREFIXED
    bindings = [
        AclBinding(ResourceType[kind], ASKED["prefix"], pattern, principal, "*", AclOperation.ALL, AclPermissionType.ALLOW)
        for kind in ASKED["kinds"]
    ]
    for future in (client.create_acls(bindings) if bindings else {}).values():
        future.result(60)


{"produce": produce, "transaction": transaction, "consume": consume, "follow": follow, "admin": admin, "user": user}[COMMAND]()
