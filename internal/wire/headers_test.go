package wire_test

import (
	"net/textproto"
	"strings"
	"testing"

	"durablestreams/internal/wire"
)

func TestHeaderNamesIndexAnHTTPHeader(t *testing.T) {
	names := map[string]string{ // constant -> spelling of the protocol
		wire.HeaderStreamTTL:             "Stream-TTL",
		wire.HeaderStreamExpiresAt:       "Stream-Expires-At",
		wire.HeaderStreamSeq:             "Stream-Seq",
		wire.HeaderStreamCursor:          "Stream-Cursor",
		wire.HeaderStreamNextOffset:      "Stream-Next-Offset",
		wire.HeaderStreamUpToDate:        "Stream-Up-To-Date",
		wire.HeaderStreamClosed:          "Stream-Closed",
		wire.HeaderStreamForkedFrom:      "Stream-Forked-From",
		wire.HeaderStreamForkOffset:      "Stream-Fork-Offset",
		wire.HeaderStreamForkSubOffset:   "Stream-Fork-Sub-Offset",
		wire.HeaderStreamSSEDataEncoding: "Stream-SSE-Data-Encoding",
		wire.HeaderProducerID:            "Producer-Id",
		wire.HeaderProducerEpoch:         "Producer-Epoch",
		wire.HeaderProducerSeq:           "Producer-Seq",
		wire.HeaderProducerExpectedSeq:   "Producer-Expected-Seq",
		wire.HeaderProducerReceivedSeq:   "Producer-Received-Seq",
	}
	for name, protocol := range names {
		if !strings.EqualFold(name, protocol) {
			t.Errorf("%q is not the protocol's %q", name, protocol)
		}
		if c := textproto.CanonicalMIMEHeaderKey(name); c != name {
			t.Errorf("%q is stored as %q by net/http", name, c)
		}
	}
}
