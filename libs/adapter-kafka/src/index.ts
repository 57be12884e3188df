export { openKafkaLog, type KafkaLogOptions } from "./kafka-log.ts";
export { makeTopics, type TopicsToMake } from "./make-topics.ts";
