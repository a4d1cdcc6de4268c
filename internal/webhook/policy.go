package webhook

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Policy says which URLs may be called. The zero value allows https to public
// addresses, and nothing else.
type Policy struct {
	// AllowLocal also allows this machine, with http as well: localhost, 127.0.0.0/8
	// and [::1]. For development.
	AllowLocal bool
	// Allow lists what is let through although its address is not public.
	Allow []Rule
	// OnlyAllowed refuses whatever Allow does not list.
	OnlyAllowed bool
}

// Rule lets one host or a range of addresses through.
//
// A host may resolve to public and private addresses and to this machine, but not to
// reserved ones, such as those of metadata services. A range lets its addresses
// through whatever they are, named by a URL or reached through a name.
type Rule struct {
	host   string
	prefix netip.Prefix
}

// ParseRule reads a rule: a host ("worker.internal"), all hosts below a name
// ("*.example.com"), an address or a range of addresses ("10.1.0.0/16").
func ParseRule(text string) (Rule, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		if prefix != prefix.Masked() || prefix.Addr().Is4In6() {
			return Rule{}, fmt.Errorf("allowed webhook target %q: not the first address of a range, or an IPv4 range in IPv6 form", text)
		}
		return Rule{prefix: prefix}, nil
	}
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" && !addr.Is4In6() {
		return Rule{prefix: netip.PrefixFrom(addr, addr.BitLen())}, nil
	}
	host := strings.ToLower(text)
	if reason := checkName(strings.TrimPrefix(host, "*.")); reason != "" {
		return Rule{}, fmt.Errorf("allowed webhook target %q: %s", text, reason)
	}
	return Rule{host: host}, nil
}

// String gives the rule as [ParseRule] reads it.
func (r Rule) String() string {
	if r.host != "" {
		return r.host
	}
	return r.prefix.String()
}

// names tells whether the rule lets a host through by its name.
func (r Rule) names(host string) bool {
	if below, ok := strings.CutPrefix(r.host, "*"); ok {
		return strings.HasSuffix(host, below)
	}
	return r.host != "" && r.host == host
}

func (r Rule) holds(a netip.Addr) bool {
	return r.prefix.IsValid() && r.prefix.Contains(a.Unmap())
}

func (p *Policy) names(host string) bool {
	return slices.ContainsFunc(p.Allow, func(r Rule) bool { return r.names(host) })
}

func (p *Policy) holds(a netip.Addr) bool {
	return slices.ContainsFunc(p.Allow, func(r Rule) bool { return r.holds(a) })
}

// onlyNames tells whether a name can be refused before it is resolved.
func (p *Policy) onlyNames() bool {
	return p.OnlyAllowed && !slices.ContainsFunc(p.Allow, func(r Rule) bool { return r.prefix.IsValid() })
}

// checkAddr decides about an address that a connection is about to be made to, for
// a URL with the given host. It returns why not, or nothing.
func (p *Policy) checkAddr(host string, a netip.Addr) string {
	whose := reachOf(a)
	switch {
	case p.holds(a):
		return ""
	case p.AllowLocal && isLocalHost(host):
		if a.Unmap().IsLoopback() {
			return ""
		}
		return "the name of this machine leads to another one"
	case p.names(host):
		if whose != reachSpecial {
			return ""
		}
	case p.OnlyAllowed:
		return "the address is not on the list of allowed targets"
	case whose == reachPublic:
		return ""
	}
	return "the address is " + whose.String()
}

// URLError says why a URL is not called. Its text never repeats the URL, which may
// hold secrets.
type URLError struct{ Reason string }

func (e *URLError) Error() string { return "webhook URL rejected: " + e.Reason }

const maxURL = 2048

// CheckURL decides whether a URL may become that of a subscription (§6.2, §12.8); the
// error is a *[URLError]. A URL that passes may still lead to an address that is
// refused when the connection is made: names are not resolved here, since they may
// resolve to something else tomorrow.
func (p *Policy) CheckURL(raw string) error {
	if _, reason := p.parse(raw); reason != "" {
		return &URLError{reason}
	}
	return nil
}

// parse gives the URL, or the reason why it is refused.
func (p *Policy) parse(raw string) (*url.URL, string) {
	if reason := checkText(raw); reason != "" {
		return nil, reason
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, "it is not a URL" // err repeats the text
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, "it must use https"
	case u.Host == "":
		return nil, "it has no host"
	case u.User != nil:
		return nil, "it has a user name or password in it"
	}
	host := strings.ToLower(u.Hostname())
	local := p.AllowLocal && isLocalHost(host)
	if reason := p.checkHost(host); reason != "" {
		return nil, reason
	}
	if u.Scheme == "http" && !local {
		return nil, "it must use https"
	}
	if reason := checkPort(u, local || p.names(host)); reason != "" {
		return nil, reason
	}
	return u, ""
}

// checkText refuses what different programs read as different URLs.
func checkText(raw string) string {
	if raw == "" || len(raw) > maxURL {
		return "it is empty or longer than 2048 bytes"
	}
	for i := range len(raw) {
		switch c := raw[i]; {
		case c <= ' ' || c >= 0x7f || strings.IndexByte(`\"<>^{|}`+"`", c) >= 0:
			return "it has a character that must be percent-encoded (in a host: written in punycode)"
		case c == '#':
			return "it has a fragment"
		}
	}
	return ""
}

// checkHost decides about a host in lower case.
func (p *Policy) checkHost(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" || addr.String() != host {
			return "the address is not in its usual form"
		}
		return p.checkAddr(host, addr)
	}
	switch {
	case checkName(host) != "":
		return checkName(host)
	case p.names(host) || p.AllowLocal && host == "localhost":
		return ""
	case p.onlyNames():
		return "the host is not on the list of allowed targets"
	case !strings.Contains(host, "."):
		return "the host is a name of the local network"
	}
	for _, end := range []string{".localhost", ".local", ".internal", ".localdomain", ".home.arpa"} {
		if strings.HasSuffix(host, end) {
			return "the host is a name of the local network"
		}
	}
	return ""
}

// checkName refuses what is no name of a host, and numbers in disguise: programs take
// names that end in a number for addresses (2130706433, 0x7f.1, 127.1).
func checkName(host string) string {
	if len(host) > 253 {
		return "the host is too long"
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 {
			return "the host has an empty or too long part"
		}
		for i := range len(label) {
			if c := label[i]; c != '-' && c != '_' && (c < 'a' || c > 'z') && !isDigit(c) {
				return "the host has a character that names do not have"
			}
		}
	}
	if last := labels[len(labels)-1]; isDigit(last[0]) {
		return "the host is a number that is not an address in its usual form"
	}
	return ""
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isLocalHost tells whether a host is one of those that development may use.
func isLocalHost(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() && !addr.Is4In6()
}

// checkPort refuses ports of other services than HTTP, except on hosts that the
// operator has named.
func checkPort(u *url.URL, trusted bool) string {
	text := u.Port()
	if text == "" {
		if strings.HasSuffix(u.Host, ":") {
			return "the port is empty"
		}
		return ""
	}
	port := 0
	for i := range len(text) {
		if port = port*10 + int(text[i]-'0'); !isDigit(text[i]) || port > 65535 || port == 0 {
			return "the port is not a number from 1 to 65535 in its usual form"
		}
	}
	if port < 1024 && port != 443 && !trusted {
		return "ports below 1024 are not called, except 443"
	}
	return ""
}
