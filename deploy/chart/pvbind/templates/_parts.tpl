{{- /* Objects that every component has. Components are told apart by a dictionary {root, name, values}. */}}

{{- define "pvbind.parts" }}
{{- if .root.Values.metrics.service }}
---
apiVersion: v1
kind: Service
{{ include "pvbind.metadata" . }}
spec:
  # A pod that is not ready is looked at too.
  publishNotReadyAddresses: true
  clusterIP: None
  selector:
    {{- include "pvbind.selector" . | nindent 4 }}
  ports:
  - {name: metrics, port: {{ .values.port }}, targetPort: metrics}
{{- end }}
{{- if and .values.podDisruptionBudget (gt (int .values.replicas) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
{{ include "pvbind.metadata" . }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "pvbind.selector" . | nindent 6 }}
{{- end }}
{{- if .root.Values.metrics.serviceMonitor.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ include "pvbind.component" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "pvbind.labels" . | nindent 4 }}
    {{- with .root.Values.metrics.serviceMonitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "pvbind.selector" . | nindent 6 }}
  namespaceSelector: {matchNames: [{{ .root.Release.Namespace }}]}
  endpoints:
  - {port: metrics, interval: {{ .root.Values.metrics.serviceMonitor.interval }}}
{{- end }}
{{- if .root.Values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
{{ include "pvbind.metadata" . }}
spec:
  podSelector:
    matchLabels:
      {{- include "pvbind.selector" . | nindent 6 }}
  policyTypes: [Ingress]
  ingress:
  - ports:
    - {port: metrics}
    {{- with .root.Values.networkPolicy.from }}
    from:
      {{- toYaml . | nindent 6 }}
    {{- end }}
{{- end }}
{{- end -}}

{{- define "pvbind.serviceAccount" }}
{{- if .values.serviceAccount.create }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "pvbind.account" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "pvbind.labels" . | nindent 4 }}
  {{- with .values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}
{{- end -}}

{{- /* Who has a role. */}}
{{- define "pvbind.subject" -}}
subjects:
- kind: ServiceAccount
  name: {{ include "pvbind.account" . }}
  namespace: {{ .root.Release.Namespace }}
{{- end -}}

{{- /* The lease by which one of several replicas leads. */}}
{{- define "pvbind.lease" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .lease }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "pvbind.labels" . | nindent 4 }}
rules:
{{- if .creates }}
# What is not there yet has no name that a rule could be about.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
{{- end }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ .lease }}]
  verbs: [{{ if .creates }}get, list, update, watch{{ else }}get, update{{ end }}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .lease }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "pvbind.labels" . | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ .lease }}}
{{ include "pvbind.subject" . }}
{{- end -}}

{{- define "pvbind.clusterRoleBinding" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
{{ include "pvbind.clusterMetadata" . }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ include "pvbind.component" . }}}
{{ include "pvbind.subject" . }}
{{- end -}}
