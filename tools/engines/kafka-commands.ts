// Kafka's own commands, as its distribution has them in bin: for a cluster's folder, with the jars of the broker.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { classPath, type Artefacts } from "./artefacts.ts";

export const KAFKA_TOOLS: Artefacts = { engine: "kafka-tools", pom: join(import.meta.dirname, "kafka/tools-pom.xml") };

const CLASSES = {
  "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
  "kafka-configs.sh": "kafka.admin.ConfigCommand",
  "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
  "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
  "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
};
/** Each is over in a second. */
const JAVA_FLAGS = "-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn";
const EXECUTABLE = 0o755;

/** Writes them to `folder`/bin. */
export function writeKafkaCommands(folder: string, brokerClasses: string, report: (line: string) => void): void {
  const classes = `${classPath(KAFKA_TOOLS, process.env, report)}:${brokerClasses}`;
  const bin = join(folder, "bin");
  mkdirSync(bin, { recursive: true });
  for (const [name, main] of Object.entries(CLASSES))
    writeFileSync(join(bin, name), `#!/bin/sh\nexec java ${JAVA_FLAGS} -cp '${classes}' ${main} "$@"\n`, { mode: EXECUTABLE });
}
