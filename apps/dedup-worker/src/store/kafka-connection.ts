import type { KafkaLogOptions } from "@concord/adapter-kafka";
import type { DedupWorkerConfig } from "../config.ts";

/** How the brokers are reached. `ca`: PEM text of the authority of their certificates. */
export function kafkaConnection(
  config: DedupWorkerConfig,
  ca: string | undefined,
): Pick<KafkaLogOptions, "brokers" | "clientId" | "tls" | "sasl"> {
  const { kafkaBrokers: brokers, nodeName: clientId, kafkaUser: username, kafkaPassword: password, kafkaSasl: mechanism } = config;
  return {
    brokers,
    clientId,
    ...(ca !== undefined ? { tls: { ca } } : config.kafkaTls ? { tls: true as const } : {}),
    ...(username === undefined || password === undefined ? {} : { sasl: { mechanism, username, password } }),
  };
}
