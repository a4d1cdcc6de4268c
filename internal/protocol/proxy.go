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
	return p.contains(peer.Addr())
}

// contains reports whether an address is one of a trusted proxy.
func (p *proxies) contains(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, r := range p.ranges {
		if r.Contains(addr) {
			return true
		}
	}
	return false
}

// client gives the address of the client behind trusted proxies: each of them says from
// where it was reached (X-Forwarded-For, or else the parameter for of Forwarded), and the
// last address that is not one of theirs is the client's. What is before that anybody may
// have written. "" if the nearest proxy says nothing that is an address.
func (p *proxies) client(h Header) string {
	client := ""
	hops := forwardedFor(h)
	for i := len(hops) - 1; i >= 0; i-- {
		addr, ok := hopAddr(hops[i])
		if !ok {
			break
		}
		client = addr.String()
		if !p.contains(addr) {
			break
		}
	}
	return client
}

// forwardedFor lists from where proxies say that they were reached, the nearest last.
func forwardedFor(h Header) (hops []string) {
	if fields := h.Values("X-Forwarded-For"); len(fields) > 0 {
		return strings.Split(strings.Join(fields, ","), ",")
	}
	for element := range strings.SplitSeq(strings.Join(h.Values("Forwarded"), ","), ",") {
		hop := ""
		for pair := range strings.SplitSeq(element, ";") {
			if key, value, _ := strings.Cut(strings.TrimSpace(pair), "="); strings.EqualFold(key, "for") {
				hop = strings.Trim(value, `"`)
			}
		}
		hops = append(hops, hop)
	}
	return hops
}

// hopAddr reads an address, with or without a port, IPv6 with or without brackets.
func hopAddr(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	if withPort, err := netip.ParseAddrPort(s); err == nil {
		return withPort.Addr().Unmap().WithZone(""), true
	}
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	return addr.Unmap().WithZone(""), err == nil
}

// plainPeer is a peer's address without its port.
func plainPeer(remote string) string {
	if addr, err := netip.ParseAddrPort(remote); err == nil {
		return addr.Addr().Unmap().WithZone("").String()
	}
	if remote == "" || remote[0] == '@' || remote[0] == '/' {
		return unixProxy
	}
	return clip(remote, maxMethod)
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
