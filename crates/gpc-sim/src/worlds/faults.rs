//! Declares the faults of a kind of worlds, with their names.

/// Declares the enum `Fault` with text names, `name` and `ALL`.
#[doc(hidden)]
#[macro_export]
macro_rules! __faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// All faults.
            pub const ALL: [Fault; [$($text),*].len()] = [$(Fault::$name),*];

            /// Name of the fault.
            pub fn name(self) -> &'static str {
                match self {
                    $(Fault::$name => $text,)*
                }
            }
        }

        impl ::std::fmt::Display for Fault {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
