export { openKafkaLog, type KafkaLogOptions } from "./kafka-log.ts";
export { openKafkaRecords, type KafkaRecords, type KafkaRecordsOptions } from "./kafka-records.ts";
export { makeRecordTopic, makeTopics, type TopicsToMake } from "./make-topics.ts";
