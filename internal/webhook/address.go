package webhook

import "net/netip"

// reach says whose network an address belongs to.
type reach int

const (
	reachPublic  reach = iota
	reachLocal         // this machine
	reachPrivate       // a network that only the operator's machines see
	reachSpecial       // link-local and metadata services, multicast, reserved: no receiver lives there
)

func (r reach) String() string {
	return [...]string{"public", "of this machine", "private", "reserved"}[r]
}

// network is a range of addresses and whose it is.
type network struct {
	prefix netip.Prefix
	reach  reach
}

// networks are the ranges that are not public, by IANA's registries of special-purpose
// addresses, and the addresses at which clouds show secrets to their machines. The
// first one that holds an address decides. What is in none of them is public if it is
// IPv4, or IPv6 within 2000::/3.
var networks = []network{
	at("168.63.129.16/32", reachSpecial),   // Azure's services for its machines
	at("100.100.100.200/32", reachSpecial), // Alibaba's
	at("fd00:ec2::254/128", reachSpecial),  // Amazon's
	at("fd20:ce::254/128", reachSpecial),   // Google's

	at("0.0.0.0/8", reachSpecial),
	at("10.0.0.0/8", reachPrivate),
	at("100.64.0.0/10", reachPrivate), // carrier-grade NAT, overlay networks
	at("127.0.0.0/8", reachLocal),
	at("169.254.0.0/16", reachSpecial), // link-local, with most metadata services
	at("172.16.0.0/12", reachPrivate),
	at("192.0.0.0/24", reachSpecial),
	at("192.0.2.0/24", reachSpecial),
	at("192.88.99.0/24", reachSpecial),
	at("192.168.0.0/16", reachPrivate),
	at("198.18.0.0/15", reachSpecial),
	at("198.51.100.0/24", reachSpecial),
	at("203.0.113.0/24", reachSpecial),
	at("224.0.0.0/3", reachSpecial), // multicast, reserved, broadcast

	at("::1/128", reachLocal),
	at("fc00::/7", reachPrivate),
	at("64:ff9b:1::/48", reachPrivate), // NAT64 of one network
	at("2001::/23", reachSpecial),      // Teredo and other protocols
	at("2001:db8::/32", reachSpecial),
	at("3fff::/20", reachSpecial),
}

func at(prefix string, r reach) network { return network{netip.MustParsePrefix(prefix), r} }

// Ranges of IPv6 addresses that stand for an IPv4 address, and the plain ones.
var (
	globalIPv6 = mustPrefix("2000::/3")
	nat64      = mustPrefix("64:ff9b::/96")
	sixToFour  = mustPrefix("2002::/16")
)

func mustPrefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// reachOf tells whose network an address belongs to. An IPv6 address that stands for
// an IPv4 address has the reach of that one. IPv4-compatible addresses (::a.b.c.d) are
// reserved: nothing has used them for decades. So are addresses with a zone, which only
// link-local ones have.
func reachOf(a netip.Addr) reach {
	a = a.Unmap()
	for _, n := range networks {
		if n.prefix.Contains(a) {
			return n.reach
		}
	}
	if a.Is4() {
		return reachPublic
	}
	bytes := a.As16()
	switch {
	case nat64.Contains(a):
		return reachOf(netip.AddrFrom4([4]byte(bytes[12:16])))
	case sixToFour.Contains(a):
		return reachOf(netip.AddrFrom4([4]byte(bytes[2:6])))
	case globalIPv6.Contains(a):
		return reachPublic
	}
	return reachSpecial
}
