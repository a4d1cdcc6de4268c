package protocol

import (
	"fmt"
	"net/netip"
	"strings"
)

// unixProxy in a list of proxies stands for whoever connects by a Unix socket.
const unixProxy = "unix"

// proxies are the peers whose word about a request's origin counts.
type proxies struct {
	ranges []netip.Prefix
	unix   bool
}

// parseProxies reads addresses and ranges of addresses.
func parseProxies(list []string) (p proxies, err error) {
	for _, text := range list {
		if text == unixProxy {
			p.unix = true
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			addr, err := netip.ParseAddr(text)
			if err != nil || addr.Zone() != "" {
				return p, fmt.Errorf("trusted proxy %q: want an address, a range such as 10.0.0.0/8, or unix", text)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		p.ranges = append(p.ranges, prefix.Masked())
	}
	return p, nil
}

// Proxied reports whether a peer is a trusted proxy. Remote is the address of a
// connection as net.Conn has it.
func (c *Core) Proxied(remote func() string) bool {
	p := &c.proxies
	if len(p.ranges) == 0 && !p.unix {
		return false
	}
	peer, err := netip.ParseAddrPort(remote())
	if err != nil {
		return p.unix // the peer of a Unix socket has no address, or a path
	}
	addr := peer.Addr().Unmap().WithZone("")
	for _, r := range p.ranges {
		if r.Contains(addr) {
			return true
		}
	}
	return false
}

// forwarded gives scheme and host as the client used them: what the nearest proxy
// said, which is the last value (RFC 7239, and the X-Forwarded fields before it). What
// is not said, or is no scheme or host, stays.
func forwarded(h Header, scheme, host string) (string, string) {
	proto, name := lastValue(h, "X-Forwarded-Proto"), lastValue(h, "X-Forwarded-Host")
	for pair := range strings.SplitSeq(lastValue(h, "Forwarded"), ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(key) {
		case "proto":
			proto = value
		case "host":
			name = value
		}
	}
	if proto = strings.ToLower(proto); proto == "http" || proto == "https" {
		scheme = proto
	}
	if plainHost(name) {
		host = name
	}
	return scheme, host
}

// lastValue is the last element of a list in one or more fields. No scheme or host has
// a comma.
func lastValue(h Header, name string) string {
	all := h.Values(name)
	if len(all) == 0 {
		return ""
	}
	last := all[len(all)-1]
	return strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
}

// plainHost takes names, addresses and a port.
func plainHost(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._:[]", c) >= 0) {
			return false
		}
	}
	return s != ""
}
