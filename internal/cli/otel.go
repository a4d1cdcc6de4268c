package cli

import "strings"

// standardEndpoint is the collector that OpenTelemetry's variables name, "" if they name
// none, or want no traces, or speak of a protocol that is not ours.
func standardEndpoint(lookup func(string) (string, bool)) string {
	value := func(name string) string {
		v, _ := lookup(name)
		return strings.TrimSpace(v)
	}
	exporter := value("OTEL_TRACES_EXPORTER")
	if strings.EqualFold(value("OTEL_SDK_DISABLED"), "true") || exporter != "" && exporter != "otlp" {
		return ""
	}
	protocol := value("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = value("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	if protocol != "" && protocol != "http/protobuf" {
		return ""
	}
	if v := value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); v != "" {
		return v
	}
	return value("OTEL_EXPORTER_OTLP_ENDPOINT")
}
