# make install, make uninstall: the programs, the library in its two forms, its header, its documents, what other build
# systems and shells read, specs and examples. Included by Makefile, and no use alone. DESTDIR is put before every path and
# is in no file that is installed.

PREFIX     = /usr/local
BINDIR     = $(PREFIX)/bin
LIBDIR     = $(PREFIX)/lib
INCLUDEDIR = $(PREFIX)/include
SHAREDIR   = $(PREFIX)/share
DOCDIR     = $(SHAREDIR)/doc/attngen
MANDIR     = $(SHAREDIR)/man/man1
BASHDIR    = $(SHAREDIR)/bash-completion/completions
ZSHDIR     = $(SHAREDIR)/zsh/site-functions
CMAKEDIR   = $(LIBDIR)/cmake/attn
DESTDIR    =
INSTALL    = install
LDCONFIG   = ldconfig

# Pages keep their places, so that links between them work where they are installed, too.
PAGES    := $(sort $(wildcard README.md CHANGELOG.md */README.md */*/README.md runtime/install/*.md tests/bench/*.md tests/bench/*.svg))
SPECS    := $(sort $(wildcard specs/*.yaml specs/*.shapes specs/README.md))
LADDER   := $(sort $(wildcard specs/ladder/*))
EXAMPLES := $(sort $(wildcard tests/examples/*.c))
installed-files = $(BINDIR)/attngen $(BINDIR)/attngen-emit $(LIBDIR)/libattn.a $(LIBDIR)/libattn.so $(LIBDIR)/$(SONAME) \
	$(LIBDIR)/libattn.so.$(VERSION) $(INCLUDEDIR)/attn.h $(LIBDIR)/pkgconfig/attn.pc \
	$(CMAKEDIR)/attn-config.cmake $(CMAKEDIR)/attn-config-version.cmake \
	$(MANDIR)/attngen.1 $(BASHDIR)/attngen $(ZSHDIR)/_attngen $(addprefix $(DOCDIR)/,LICENSE $(PAGES)) \
	$(addprefix $(SHAREDIR)/attngen/,$(SPECS) $(LADDER)) $(addprefix $(DOCDIR)/examples/,$(notdir $(EXAMPLES)))
install-dirs = $(sort $(dir $(installed-files)))
# The deepest first, to be removed when they are empty.
page-dirs    = $(addprefix $(DOCDIR)/,tests/bench tests/data tests runtime/install runtime/python runtime specs templates)

# What is written for a place: its paths stand in it.
place = sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' \
    -e 's|@VERSION@|$(VERSION)|' -e 's|@SONAME@|$(SONAME)|' -e 's|@LIBS@|$(attn-libs)|'

# Everything is built by those who may not be root; then only files are copied. The loader's cache belongs to the machine,
# and not to a DESTDIR.
install: all
	$(INSTALL) -d $(install-dirs:%='$(DESTDIR)%')
	$(INSTALL) -m 755 $(PROGRAM) $(EMIT) '$(DESTDIR)$(BINDIR)'
	$(INSTALL) -m 644 $(LIB)/libattn.a '$(DESTDIR)$(LIBDIR)/libattn.a'
	$(INSTALL) -m 755 $(LIB)/libattn.so.$(VERSION) '$(DESTDIR)$(LIBDIR)/libattn.so.$(VERSION)'
	ln -sf libattn.so.$(VERSION) '$(DESTDIR)$(LIBDIR)/$(SONAME)'
	ln -sf $(SONAME) '$(DESTDIR)$(LIBDIR)/libattn.so'
	$(INSTALL) -m 644 runtime/attn.h '$(DESTDIR)$(INCLUDEDIR)/attn.h'
	for file in attn.pc attn-config.cmake attn-config-version.cmake; do \
	    $(place) runtime/install/$$file.in > $(OBJ)/$$file || exit 1; done
	$(INSTALL) -m 644 $(OBJ)/attn.pc '$(DESTDIR)$(LIBDIR)/pkgconfig/attn.pc'
	$(INSTALL) -m 644 $(OBJ)/attn-config.cmake $(OBJ)/attn-config-version.cmake '$(DESTDIR)$(CMAKEDIR)'
	for kind in man bash zsh; do $(BIN)/attngen --document $$kind > $(OBJ)/document.$$kind || exit 1; done
	$(INSTALL) -m 644 $(OBJ)/document.man '$(DESTDIR)$(MANDIR)/attngen.1'
	$(INSTALL) -m 644 $(OBJ)/document.bash '$(DESTDIR)$(BASHDIR)/attngen'
	$(INSTALL) -m 644 $(OBJ)/document.zsh '$(DESTDIR)$(ZSHDIR)/_attngen'
	$(INSTALL) -m 644 LICENSE '$(DESTDIR)$(DOCDIR)'
	for page in $(PAGES); do $(INSTALL) -m 644 $$page '$(DESTDIR)$(DOCDIR)'/$$page || exit 1; done
	$(INSTALL) -m 644 $(SPECS) '$(DESTDIR)$(SHAREDIR)/attngen/specs'
	$(INSTALL) -m 644 $(LADDER) '$(DESTDIR)$(SHAREDIR)/attngen/specs/ladder'
	$(INSTALL) -m 644 $(EXAMPLES) '$(DESTDIR)$(DOCDIR)/examples'
	@$(if $(DESTDIR),:,$(LDCONFIG) 2>/dev/null || \
	    echo 'make install: run `ldconfig` as root, so that programs find $(LIBDIR)/$(SONAME)')

uninstall:
	for file in $(installed-files); do rm -f "$(DESTDIR)$$file"; done
	-for dir in $(DOCDIR)/examples $(page-dirs) $(DOCDIR) $(SHAREDIR)/attngen/specs/ladder $(SHAREDIR)/attngen/specs \
	    $(SHAREDIR)/attngen $(CMAKEDIR); do rmdir "$(DESTDIR)$$dir" 2>/dev/null; done
	@$(if $(DESTDIR),:,$(LDCONFIG) 2>/dev/null || :)
