package httpapi

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"net/http"

	"durablestreams/internal/protocol"
)

// NewServer gives a server for handler with limits on everything that a peer
// could make last. opt may be nil. The caller sets Addr and TLSConfig.
func NewServer(handler http.Handler, opt *Options) *http.Server {
	o := opt.withDefaults()
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: o.HeaderTimeout,
		// The handler renews it with every write. Set here, it also starts anew
		// with each request of a connection and covers what net/http writes by
		// itself.
		WriteTimeout:   o.StallTimeout,
		IdleTimeout:    o.IdleTimeout,
		MaxHeaderBytes: o.MaxHeaderBytes,
		ErrorLog:       log.New(&errorLog{protocol.LimitLog(o.Logger)}, "", 0),
		// "OPTIONS *" is the handler's, which names the protocol's headers.
		DisableGeneralOptionsHandler: true,
		Protocols:                    protocols(),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          streamsPerConnection,
			MaxReceiveBufferPerConnection: connectionWindow,
			MaxReceiveBufferPerStream:     streamWindow,
			WriteByteTimeout:              o.StallTimeout,
		},
	}
}

// Bounds of one HTTP/2 connection. The windows are memory that a client can fill
// before anybody looks at its requests.
const (
	streamsPerConnection = 250
	connectionWindow     = 512 << 10
	streamWindow         = 256 << 10
)

// protocols are all that net/http speaks: HTTP/2 over TLS by ALPN, and in the clear
// for clients that know beforehand (RFC 9113 §3.3).
func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// errorLog passes what net/http reports on to a structured logger.
type errorLog struct{ logger *slog.Logger }

func (l *errorLog) Write(p []byte) (int, error) {
	l.logger.LogAttrs(context.Background(), slog.LevelWarn, "http server", slog.String("message", string(bytes.TrimSpace(p))))
	return len(p), nil
}
