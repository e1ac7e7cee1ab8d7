{{- define "pod" }}
metadata: {labels: {app: {{ .name }}}}
spec:
  {{- with .restartPolicy }}
  restartPolicy: {{ . }}
  {{- end }}
  containers:
  - name: main
    image: {{ .values.image }}
    resources: {requests: {cpu: 100m}}
{{- end }}
