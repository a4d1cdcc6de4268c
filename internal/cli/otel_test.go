package cli_test

import (
	"strings"
	"testing"

	"durablestreams/internal/cli"
)

func TestStandardEndpoint(t *testing.T) {
	for env, want := range map[string]string{
		"": "",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318":                                                                              "http://c:4318",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318 OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t/x":                                "http://t/x",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318 OTEL_SDK_DISABLED=true":                                                       "",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318 OTEL_SDK_DISABLED=false":                                                      "http://c:4318",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318 OTEL_TRACES_EXPORTER=none":                                                    "",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318 OTEL_TRACES_EXPORTER=otlp":                                                    "http://c:4318",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317 OTEL_EXPORTER_OTLP_PROTOCOL=grpc":                                             "",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf":                                         "http://c",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf": "http://c",
	} {
		set := map[string]string{}
		for _, v := range strings.Fields(env) {
			name, value, _ := strings.Cut(v, "=")
			set[name] = value
		}
		got := cli.StandardEndpoint(func(name string) (string, bool) { v, ok := set[name]; return v, ok })
		if got != want {
			t.Errorf("%s: %q, want %q", env, got, want)
		}
	}
}
