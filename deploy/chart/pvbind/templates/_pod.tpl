{{- /* What the pods of all components have in common. Components are told apart by a dictionary {root, name, values}. */}}

{{- define "pvbind.deployment" -}}
replicas: {{ .values.replicas }}
{{- if or .leads (eq .name "extender") }}
strategy:
  # One replica goes at a time; who takes over is there already.
  type: RollingUpdate
  rollingUpdate: {maxUnavailable: 1, maxSurge: 1}
{{- else }}
strategy:
  # Without leader election, never two at once.
  type: Recreate
{{- end }}
selector:
  matchLabels:
    {{- include "pvbind.selector" . | nindent 4 }}
{{- end -}}

{{- define "pvbind.podMetadata" -}}
metadata:
  labels:
    {{- include "pvbind.selector" . | nindent 4 }}
    {{- with .values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "pvbind.pod" -}}
serviceAccountName: {{ include "pvbind.account" . }}
automountServiceAccountToken: true
# Variables with the names of services could be taken for options.
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
priorityClassName: {{ .values.priorityClassName | quote }}
# Longer than what is under way may take to end, 10 s.
terminationGracePeriodSeconds: {{ .values.terminationGracePeriodSeconds }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
{{- with .values.topologySpreadConstraints }}
  {{- toYaml . | nindent 2 }}
{{- else }}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "pvbind.selector" . | nindent 6 }}
{{- end }}
{{- end -}}

{{- define "pvbind.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "pvbind.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "pvbind.container" -}}
image: {{ include "pvbind.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
ports:
- {name: metrics, containerPort: {{ .values.port }}}
{{- if or .root.Values.log.filter .values.extraEnv }}
env:
{{- with .root.Values.log.filter }}
- {name: RUST_LOG, value: {{ . | quote }}}
{{- end }}
{{- with .values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
livenessProbe:
  httpGet: {path: /livez, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
resources:
  {{- toYaml .values.resources | nindent 2 }}
{{- end -}}

{{- /* Arguments that every component has. */}}
{{- define "pvbind.arguments" -}}
- --log-format={{ .root.Values.log.format }}
- --metrics-addr=:{{ .values.port }}
- --executors={{ .values.executors }}
{{- if .leads }}
- --leader-elect
- --leader-elect-resource-name={{ include "pvbind.component" . }}
- --leader-elect-lease-duration={{ .values.leaderElection.leaseDuration }}
- --leader-elect-renew-deadline={{ .values.leaderElection.renewDeadline }}
- --leader-elect-retry-period={{ .values.leaderElection.retryPeriod }}
{{- else }}
- --leader-elect=false
{{- end }}
{{- end -}}

{{- /* Arguments of those that place pods. */}}
{{- define "pvbind.placing" -}}
- --bind-timeout={{ .values.bindTimeout }}
- --strict-capacity={{ .values.strictCapacity }}
{{- with .values.storageCapacityScoring }}
- --storage-capacity-scoring={{ . }}
{{- end }}
{{- end -}}
