// What programs that start the services, and clients of them, share.
export { isIndeterminate } from "./clients/indeterminate.ts";
export { installClient, type Client, type Installed } from "./clients/installed-client.ts";
export { plainGrpc, type PlainGrpc, type PlainService, type PlainStream } from "./clients/plain-grpc.ts";
export { s3Client } from "./clients/s3.ts";
export {
  startConstellation,
  FolderInUseError,
  type Constellation,
  type ConstellationOptions,
  type Exit,
  type NodeProcess,
} from "./constellation.ts";
export { CREDENTIALS_FILE, type AccessKey, type Tokens } from "./data-folder.ts";
export { cassandraNodes, engineAddresses, enginesOf, kafkaNames, OWN_ENGINES, type Engines, type KafkaNames } from "./engines.ts";
export { Latencies } from "./latencies.ts";
export {
  busiest,
  calm,
  lossOf,
  measureLoss,
  newLossFigures,
  phasesText,
  resolutions,
  type GroupPhases,
  type Loss,
  type LossFigures,
  type LossPhases,
} from "./groups-without-master.ts";
export { metricSamples, metricsPage, type MetricSample } from "./metrics.ts";
export { ListLoad, type Commit, type ListLoadOptions, type SentCommit } from "./list-load.ts";
export { ObjectMessageLoad, type ObjectMessageOptions } from "./object-message-load.ts";
export { WatchedMasters, type Said } from "./watched-masters.ts";
export { EVERYTHING, ONE_PROCESS, planFromBase, PORT_BASE, type Members, type NodePlan, type Service } from "./layout.ts";
export { reservePorts, type ReservedPorts } from "./ports.ts";
export { childCpuSeconds, cpuSeconds, memoryMiB, processTree } from "./process-usage.ts";
