package wire

// Names of the protocol's header fields (§13.2). They are spelled as net/http and
// textproto store them, so that they can index an http.Header directly. Header
// names are case-insensitive on the wire: "Stream-Ttl" is the protocol's Stream-TTL.
const (
	HeaderStreamTTL             = "Stream-Ttl"
	HeaderStreamExpiresAt       = "Stream-Expires-At"
	HeaderStreamSeq             = "Stream-Seq"
	HeaderStreamCursor          = "Stream-Cursor"
	HeaderStreamNextOffset      = "Stream-Next-Offset"
	HeaderStreamUpToDate        = "Stream-Up-To-Date"
	HeaderStreamClosed          = "Stream-Closed"
	HeaderStreamForkedFrom      = "Stream-Forked-From"
	HeaderStreamForkOffset      = "Stream-Fork-Offset"
	HeaderStreamForkSubOffset   = "Stream-Fork-Sub-Offset"
	HeaderStreamSSEDataEncoding = "Stream-Sse-Data-Encoding"
	HeaderProducerID            = "Producer-Id"
	HeaderProducerEpoch         = "Producer-Epoch"
	HeaderProducerSeq           = "Producer-Seq"
	HeaderProducerExpectedSeq   = "Producer-Expected-Seq"
	HeaderProducerReceivedSeq   = "Producer-Received-Seq"
)

// Values of protocol header fields.
const (
	// SSEDataEncodingBase64 is the only value of HeaderStreamSSEDataEncoding (§5.8).
	SSEDataEncodingBase64 = "base64"
	// True is what the flags Stream-Closed and Stream-Up-To-Date are sent as.
	True = "true"
)

// Names of the query parameters of a read (§5.6 to §5.8).
const (
	ParamOffset = "offset"
	ParamLive   = "live"
	ParamCursor = "cursor"
)

// Values of the parameter live.
const (
	LiveLongPoll = "long-poll" // §5.7
	LiveSSE      = "sse"       // §5.8
)
