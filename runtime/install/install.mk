# make install, make uninstall: the program, the library in its two forms, its header and its documents. Included by
# Makefile, and no use alone. DESTDIR is put before every path and is in no file that is installed.

PREFIX     = /usr/local
BINDIR     = $(PREFIX)/bin
LIBDIR     = $(PREFIX)/lib
INCLUDEDIR = $(PREFIX)/include
DOCDIR     = $(PREFIX)/share/doc/attngen
DESTDIR    =
INSTALL    = install

DOCUMENTS = $(wildcard README.md) LICENSE CHANGELOG.md runtime/install/THIRD-PARTY.md
installed-files = $(BINDIR)/attngen $(LIBDIR)/libattn.a $(LIBDIR)/libattn.so $(LIBDIR)/$(SONAME) \
	$(LIBDIR)/libattn.so.$(VERSION) $(INCLUDEDIR)/attn.h $(LIBDIR)/pkgconfig/attn.pc \
	$(addprefix $(DOCDIR)/,$(notdir $(DOCUMENTS)))

# Everything is built by those who may not be root; then only files are copied.
install: all
	$(INSTALL) -d '$(DESTDIR)$(BINDIR)' '$(DESTDIR)$(LIBDIR)/pkgconfig' '$(DESTDIR)$(INCLUDEDIR)' '$(DESTDIR)$(DOCDIR)'
	$(INSTALL) -m 755 $(BIN)/attngen '$(DESTDIR)$(BINDIR)/attngen'
	$(INSTALL) -m 644 $(LIB)/libattn.a '$(DESTDIR)$(LIBDIR)/libattn.a'
	$(INSTALL) -m 755 $(LIB)/libattn.so.$(VERSION) '$(DESTDIR)$(LIBDIR)/libattn.so.$(VERSION)'
	ln -sf libattn.so.$(VERSION) '$(DESTDIR)$(LIBDIR)/$(SONAME)'
	ln -sf $(SONAME) '$(DESTDIR)$(LIBDIR)/libattn.so'
	$(INSTALL) -m 644 runtime/attn.h '$(DESTDIR)$(INCLUDEDIR)/attn.h'
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' \
	    -e 's|@VERSION@|$(VERSION)|' -e 's|@LIBS@|$(attn-libs)|' runtime/install/attn.pc.in > $(OBJ)/attn.pc
	$(INSTALL) -m 644 $(OBJ)/attn.pc '$(DESTDIR)$(LIBDIR)/pkgconfig/attn.pc'
	$(INSTALL) -m 644 $(DOCUMENTS) '$(DESTDIR)$(DOCDIR)'

uninstall:
	for file in $(installed-files); do rm -f "$(DESTDIR)$$file"; done
	-rmdir '$(DESTDIR)$(DOCDIR)' 2>/dev/null
