export { openKafkaLog, type KafkaLogOptions } from "./kafka-log.ts";
