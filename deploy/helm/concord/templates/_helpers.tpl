{{- define "concord.name" -}}
{{ .Values.nameOverride | default .Release.Name | trunc 30 | trimSuffix "-" }}
{{- end }}

{{- define "concord.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{- define "concord.secret" -}}
{{ .Values.existingSecret | default (printf "%s-secrets" (include "concord.name" .)) }}
{{- end }}

{{- /* Of one service, and with the root alone of all. Context: root, service. */ -}}
{{- define "concord.selector" -}}
app.kubernetes.io/name: concord
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .service }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- define "concord.labels" -}}
{{ include "concord.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- /* host:port of a pod of a service. Context: root, service, index. */ -}}
{{- define "concord.address" -}}
{{- $name := printf "%s-%s" (include "concord.name" .root) .service -}}
{{ printf "%s-%d.%s-nodes.%s.svc.%s:7100" $name (int .index) $name .root.Release.Namespace .root.Values.clusterDomain }}
{{- end }}

{{- /* All pods of a service as the configuration lists them, JSON. Each is a zone of its own. Context: root, service, replicas. */ -}}
{{- define "concord.members" -}}
{{- $members := list -}}
{{- range $index := until (int .replicas) -}}
{{- $name := printf "%s-%s-%d" (include "concord.name" $.root) $.service $index -}}
{{- $address := include "concord.address" (dict "root" $.root "service" $.service "index" $index) -}}
{{- $members = append $members (dict "name" $name "address" $address "datacenter" (printf "zone-%d" $index)) -}}
{{- end -}}
{{ $members | toJson }}
{{- end }}

{{- /* What every server has. Context: root. */ -}}
{{- define "concord.serverConfig" -}}
{{- $config := dict "listenAddress" "0.0.0.0:7100" "adminAddress" "0.0.0.0:7110" "logLevel" .Values.logLevel -}}
{{- if .Values.tlsSecret -}}
{{- $tls := dict "tlsCertificateFile" "/etc/concord/tls/tls.crt" "tlsKeyFile" "/etc/concord/tls/tls.key" "tlsServerCaFile" "/etc/concord/tls/ca.crt" -}}
{{- $config = merge $config $tls -}}
{{- end -}}
{{ $config | toJson }}
{{- end }}

{{- define "concord.config.storage-proxy" -}}
{{- $own := dict "schemaAuthority" "coordinator" "backend" .Values.storageProxy.backend -}}
{{- if eq .Values.storageProxy.backend "cassandra" -}}
{{- with .Values.storageProxy.cassandra -}}
{{- if not .contactPoints -}}{{- fail "storageProxy.cassandra.contactPoints: name nodes of Cassandra, host:port" -}}{{- end -}}
{{- $_ := set $own "cassandraContactPoints" .contactPoints -}}
{{- $_ := set $own "cassandraDatacenter" (required "storageProxy.cassandra.datacenter: name Cassandra's datacenter" .datacenter) -}}
{{- $_ := set $own "cassandraKeyspace" .keyspace -}}
{{- if .username -}}{{- $_ := set $own "cassandraUsername" .username -}}{{- end -}}
{{- end -}}
{{- else -}}
{{- $members := include "concord.members" (dict "root" . "service" "storage-proxy" "replicas" .Values.storageProxy.replicas) | fromJsonArray -}}
{{- $_ := set $own "ring" $members -}}
{{- $_ := set $own "dataFolder" "/data/store" -}}
{{- end -}}
{{ $own | toJson }}
{{- end }}

{{- define "concord.config.txn-coordinator" -}}
{{- $proxies := include "concord.members" (dict "root" . "service" "storage-proxy" "replicas" .Values.storageProxy.replicas) | fromJsonArray -}}
{{- $coordinators := include "concord.members" (dict "root" . "service" "txn-coordinator" "replicas" (.Values.txnCoordinator.founders | default .Values.txnCoordinator.replicas)) | fromJsonArray -}}
{{ dict "storageProxies" $proxies "coordinators" $coordinators | toJson }}
{{- end }}

{{- define "concord.config.object-gateway" -}}
{{- $addresses := list -}}
{{- range $index := until (int .Values.txnCoordinator.replicas) -}}
{{- $addresses = append $addresses (include "concord.address" (dict "root" $ "service" "txn-coordinator" "index" $index)) -}}
{{- end -}}
{{- $own := dict "httpAddress" "0.0.0.0:7120" "dataFolder" "/data/store" "metadata" "transactions" "coordinators" $addresses -}}
{{- with .Values.objectGateway -}}
{{- if and .sharedClaim .ceph.secret -}}
{{- fail "objectGateway.ceph.secret: the data of objects is in Ceph or in sharedClaim, not in both" -}}
{{- else if .ceph.secret -}}
{{- $own = merge $own (dict "objects" "rados" "cephConf" "/etc/ceph/ceph.conf" "cephUser" .ceph.user "cephPool" .ceph.pool "cephNamespace" .ceph.namespace) -}}
{{- else if .sharedClaim -}}
{{- $_ := set $own "dataStoreFolder" "/objects" -}}
{{- else if gt (int .replicas) 1 -}}
{{- fail "objectGateway.sharedClaim: several gateways share the data of objects; name a PersistentVolumeClaim that all can write, or use ceph" -}}
{{- end -}}
{{- end -}}
{{ $own | toJson }}
{{- end }}

{{- /* Several dedup-workers share the partitions: they hear each other and have a token of their own. Empty: one has them all. */ -}}
{{- define "concord.sharesPartitions" -}}
{{- if gt (int .Values.dedupWorker.replicas) 1 }}true{{ end -}}
{{- end }}

{{- define "concord.config.dedup-worker" -}}
{{- $own := dict "dataFolder" "/data/store" "partitions" (int .Values.dedupWorker.partitions) "log" .Values.dedupWorker.log -}}
{{- if eq .Values.dedupWorker.log "kafka" -}}
{{- $_ := set $own "idSource" (get .Values.dedupWorker.config "idSource" | default "header:concord-id") -}}
{{- with .Values.dedupWorker.kafka -}}
{{- if not .brokers -}}{{- fail "dedupWorker.kafka.brokers: name brokers of Kafka, host:port" -}}{{- end -}}
{{- $_ := set $own "kafkaBrokers" .brokers -}}
{{- $_ := set $own "kafkaInputTopic" .inputTopic -}}
{{- $_ := set $own "kafkaOutputTopic" .outputTopic -}}
{{- $_ := set $own "kafkaDeadLettersTopic" .deadLettersTopic -}}
{{- $_ := set $own "kafkaPipeline" .pipeline -}}
{{- if .workersTopic -}}{{- $_ := set $own "kafkaWorkersTopic" .workersTopic -}}{{- end -}}
{{- if .username -}}{{- $_ := set $own "kafkaUser" .username -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if include "concord.sharesPartitions" . -}}
{{- with .Values.dedupWorker -}}
{{- $founders := int (.founders | default .replicas) -}}
{{- if ne .log "kafka" -}}{{- fail "dedupWorker.replicas: several workers share a log, kafka; one embedded in a worker is its own" -}}{{- end -}}
{{- if lt $founders 2 -}}{{- fail "dedupWorker.founders: at least two share the partitions, or 0" -}}{{- end -}}
{{- if and (gt (int .replicas) $founders) (not .kafka.workersTopic) -}}
{{- fail "dedupWorker.kafka.workersTopic: workers behind the founders are added to a list, which is kept there" -}}
{{- end -}}
{{- $_ := set $own "workers" (include "concord.members" (dict "root" $ "service" "dedup-worker" "replicas" $founders) | fromJsonArray) -}}
{{- end -}}
{{- end -}}
{{ $own | toJson }}
{{- end }}

{{- /* Variables from the Secret: those of every service, then its own. Context: root, service. */ -}}
{{- define "concord.secretVariables" -}}
{{- $variables := dict "CLIENT_TOKEN" "client-token" -}}
{{- if eq .service "storage-proxy" -}}
{{- $variables = merge $variables (dict "COORDINATOR_TOKEN" "coordinator-token" "PEER_TOKEN" "peer-token") -}}
{{- with .root.Values.storageProxy }}{{- if and (eq .backend "cassandra") .cassandra.username -}}
{{- $variables = set $variables "CASSANDRA_PASSWORD" "cassandra-password" -}}
{{- end }}{{- end -}}
{{- else if eq .service "txn-coordinator" -}}
{{- $variables = set $variables "COORDINATOR_TOKEN" "coordinator-token" -}}
{{- else if eq .service "object-gateway" -}}
{{- $variables = merge $variables (dict "TRANSACTION_TOKEN" "client-token" "OPERATOR_TOKEN" "operator-token" "ACCESS_KEYS" "access-keys") -}}
{{- else -}}
{{- $variables = set $variables "OPERATOR_TOKEN" "operator-token" -}}
{{- if include "concord.sharesPartitions" .root -}}{{- $variables = set $variables "WORKER_TOKEN" "peer-token" -}}{{- end -}}
{{- with .root.Values.dedupWorker }}{{- if and (eq .log "kafka") .kafka.username -}}
{{- $variables = set $variables "KAFKA_PASSWORD" "kafka-password" -}}
{{- end }}{{- end -}}
{{- end -}}
{{- range $variable, $key := $variables }}
- name: CONCORD_{{ $variable }}
  valueFrom: { secretKeyRef: { name: {{ include "concord.secret" $.root }}, key: {{ $key }} } }
{{- end }}
{{- end }}

{{- define "concord.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "concord.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- /* What pods of a service have beside what it needs: `pods` of all, then the service's own. Context: root, values. JSON. */ -}}
{{- define "concord.pods" -}}
{{- $common := .root.Values.pods -}}
{{- $own := get .values "pods" | default dict -}}
{{- $pods := mergeOverwrite (deepCopy $common) (deepCopy $own) -}}
{{- range $list := list "tolerations" "extraEnv" "extraVolumes" "extraVolumeMounts" -}}
{{- $_ := set $pods $list (concat (get $common $list | default list) (get $own $list | default list)) -}}
{{- end -}}
{{ $pods | toJson }}
{{- end }}

{{- define "concord.serviceAccountName" -}}
{{- with .Values.serviceAccount -}}
{{ .name | default (ternary (include "concord.name" $) "" .create) }}
{{- end -}}
{{- end }}

{{- /* Seconds until a pod that is to end is killed: preStop, lame duck, the drain, which may take four times drainGraceMs on a busy machine, and the stop's own margin. Context: config. */ -}}
{{- define "concord.graceSeconds" -}}
{{- $lameDuckMs := get .config "lameDuckMs" | default 0 | int64 -}}
{{- $drainMs := hasKey .config "drainGraceMs" | ternary (get .config "drainGraceMs") 5000 | int64 -}}
{{ max 30 (add 10 (div (add $lameDuckMs (mul 4 $drainMs) 999) 1000)) }}
{{- end }}
