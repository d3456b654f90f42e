{{- /* What things are called. Components are told apart by a dictionary {root, name, values}. */}}

{{- define "pvbind.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "pvbind.component" -}}
{{ include "pvbind.fullname" .root }}-{{ .name }}
{{- end -}}

{{- define "pvbind.account" -}}
{{ default (include "pvbind.component" .) .values.serviceAccount.name }}
{{- end -}}

{{- define "pvbind.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}

{{- define "pvbind.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end -}}

{{- define "pvbind.labels" -}}
{{ include "pvbind.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{- define "pvbind.metadata" -}}
metadata:
  name: {{ include "pvbind.component" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "pvbind.labels" . | nindent 4 }}
{{- end -}}

{{- /* The same for what belongs to no namespace. */}}
{{- define "pvbind.clusterMetadata" -}}
metadata:
  name: {{ include "pvbind.component" . }}
  labels:
    {{- include "pvbind.labels" . | nindent 4 }}
{{- end -}}
