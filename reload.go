package durablestreams

// Reload takes over from opts what can change while the server runs: AllowedOrigins,
// and the contents of the files of TLSCert and TLSKey, of Access and of TenantsFile,
// which it looks at in any case. The other options stay as they were. If something is wrong with opts,
// everything stays; a file that is wrong stays as it was read before, and so does what
// comes after it in this order: certificate, access, tenants, origins. It may be called at any
// time.
func (s *Server) Reload(opts *Options) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	if s.cert != nil {
		if err := s.cert.follow(); err != nil {
			return err
		}
	}
	if err := s.ReloadAccess(); err != nil {
		return err
	}
	if err := s.reloadTenants(); err != nil {
		return err
	}
	s.core.AllowOrigins(opts.AllowedOrigins)
	return nil
}
