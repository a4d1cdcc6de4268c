// Package webhook delivers one signed request at a time to somebody else's URL, and
// keeps the secrets that this needs: signing keys that receivers can look up, and
// tokens with which they answer (§6.5, §7.1, §12.8 to §12.10).
//
// Who is woken, when, with what body and how often it is tried again is decided by
// package subscription. This package has no queue and no timer of its own; waiting for
// a place is all it does.
//
// URLs come from strangers and lead into networks that they cannot see. So a URL is
// looked at when a subscription is made, and the address that its name leads to is
// looked at again for every connection, by the [Policy] that the operator has set.
// Proxies of the environment are not used, redirects not followed, cookies not kept,
// answers read up to a bound, and certificates always verified.
//
// [Keys] and [Sender] may be used from many goroutines.
package webhook
